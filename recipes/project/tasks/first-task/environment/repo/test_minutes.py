from durations import minutes


def test_under_an_hour():
    assert minutes("0:59") == 59


def test_two_hours():
    assert minutes("2:05") == 125
