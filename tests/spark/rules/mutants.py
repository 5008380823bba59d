"""The audit's rules, each weakened or twisted in one place. Each must find other things than the rule in some history."""

from __future__ import annotations

from typing import Final, NamedTuple


class Weakened(NamedTuple):
    """In the SQL of `rule`, `what` becomes `then`."""

    rule: str
    what: str
    then: str


MUTANTS: Final = (
    Weakened("overlap", "NOT expected", "certain"),
    Weakened("overlap", "WHERE NOT expected", ""),
    Weakened("two_holders", "< coalesce(to_offset, next.from_offset + 1)", "< to_offset"),
    Weakened("two_holders", "ORDER BY from_offset, token", "ORDER BY from_offset DESC, token"),
    Weakened("second_opinion", "'no claim of its new holder that counts stands there'", "NULL"),
    Weakened("second_opinion", "k.token <> c.in_force + k.offset", "k.token > c.in_force + k.offset"),
    Weakened("second_opinion", "UNION ALL SELECT * FROM kept", ""),
    Weakened("token_fell", "token <= before", "token < before - 100000"),
    Weakened("no_such_term", "t.from_offset IS NULL AND", "t.from_offset IS NULL AND t.to_ms IS NOT NULL AND"),
    Weakened("no_such_term", "t.token >= w.floor", "t.token > w.first_offset + 1000020"),
    Weakened("before_the_log", "{resolution} < gained_ms", "{resolution} + 10 < gained_ms"),
    Weakened("before_the_log", "+ step_ms", ""),
    Weakened("believed_again", "WHERE revived", "WHERE revived AND stop_ms IS NOT NULL"),
    Weakened("past_lease", "session_ms / (1 + drift)", "session_ms / (1 - drift)"),
    Weakened("past_lease", " + overlap_ms", ""),
    Weakened("past_lease", "bound + step_ms", "bound"),
    Weakened("through_pause", "t.to_offset > p.offset", "false"),
    Weakened("through_pause", "p.role IS NULL OR", ""),
    Weakened("through_pause", "coalesce(stop_ms, alive_ms - step_ms)", "stop_ms"),
    Weakened("false_death", "r.cause = 'did' AS told", "false AS told"),
    Weakened("false_death", "r.at_ms > d.at_ms + {append}", "false AND r.at_ms > d.at_ms + {append}"),
    Weakened("late", "fit_long > 0", "fit > 0"),
    Weakened("late", "passed = 0", "true"),
    Weakened("late", "induced OR fit > 0", "induced OR fit > 1"),
)
PLANTED: Final = (
    Weakened("worlds_differ", "kind = 'defect'", "false"),
    Weakened("second_opinion", "'the claim names a holder of a free seat'", "NULL"),
    Weakened("second_opinion", "'the claim does not name the holder'", "NULL"),
    Weakened("second_opinion", "'the record that the claim names is none of the holder that counts'", "NULL"),
    Weakened("second_opinion", "'the holder has written since'", "NULL"),
    Weakened("second_opinion", "'no transfer to its new holder that counts stands there'", "NULL"),
    Weakened("second_opinion", "UNION ALL SELECT * FROM ended", ""),
)
"""Of what each has a story of its own: see `test_planted`."""
ON_A_BUS: Final = (
    Weakened("overlap", "AND NOT w.split", ""),
    Weakened("two_holders", "AND NOT split", ""),
    Weakened("token_fell", "CASE WHEN w.split THEN 'possible' ELSE 'certain' END", "'certain'"),
    Weakened("prolonged", "ref > coalesce(said, 0)", "said IS NULL"),
    Weakened("prolonged", "w.first_offset = 0", "true"),
    Weakened("prolonged", "ELSE ref > said", "ELSE false"),
    Weakened("prolonged", "AND 1 PRECEDING", "AND UNBOUNDED FOLLOWING"),
)
"""Of groups that run ALLCALL: see `test_calls`."""
