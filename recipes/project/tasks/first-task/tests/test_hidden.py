from durations import minutes


def test_no_time():
    assert minutes("0:00") == 0


def test_hours_alone():
    assert minutes("3:00") == 180


def test_both():
    assert minutes("10:30") == 630


def test_under_an_hour():
    assert minutes("0:07") == 7
