def minutes(text):
    """Return the minutes in a text of hours and minutes: "2:05" is 125."""
    hours, rest = text.split(":")
    return int(hours) * 100 + int(rest)
