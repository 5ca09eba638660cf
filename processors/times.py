"""Times as text."""


def rfc3339(at_ms: int) -> str:
    """`2026-10-30T09:14:05.123Z` of milliseconds since the epoch (RFC 3339), by the civil-from-days algorithm
    of the proleptic Gregorian calendar: no time zone data, no clock."""
    seconds, ms = divmod(at_ms, 1_000)
    days, second = divmod(seconds, 86_400)
    era, day_of_era = divmod(days + 719_468, 146_097)
    year_of_era = (day_of_era - day_of_era // 1_460 + day_of_era // 36_524 - day_of_era // 146_096) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    shifted = (5 * day_of_year + 2) // 153
    day = day_of_year - (153 * shifted + 2) // 5 + 1
    month = shifted + 3 if shifted < 10 else shifted - 9
    year = year_of_era + era * 400 + (month <= 2)
    clock = f"{second // 3_600:02}:{second // 60 % 60:02}:{second % 60:02}"
    return f"{year:04}-{month:02}-{day:02}T{clock}.{ms:03}Z"
