"""The audit's rules and views, each weakened or twisted in one place. Each must say something else of some history."""

from __future__ import annotations

from typing import Final, NamedTuple


class Weakened(NamedTuple):
    """In the SQL of `rule`, or of the view of that name, `what` becomes `then`."""

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
VIEWS: Final = (
    Weakened("pauses", "r.ref = p.offset", "true"),
    Weakened("waits", "max(ceil(session_ms / (1 - drift)))", "max(session_ms)"),
    Weakened("waits", "AND (u.token_a IS NULL OR u.token_b IS NULL)", ""),
    Weakened("waits", "(u.token_a IS NULL OR u.token_b IS NULL)", "u.token_a IS NULL"),
    Weakened("waits", "(u.token_a IS NULL OR u.token_b IS NULL)", "u.token_b IS NULL"),
    Weakened("waits", "greatest(l.from_ms, max(p.until_ms)) AS from_ms", "l.from_ms"),
    Weakened("waits", "(p.role IS NULL OR p.role = l.role)", "p.role = l.role"),
    Weakened("waits", "(p.role IS NULL OR p.role = l.role)", "p.role IS NULL"),
    Weakened("waits", "AND p.since_ms < l.to_ms", ""),
    Weakened("waits", "NOT coalesce(bool_or(p.offset IS NOT NULL AND p.until_ms IS NULL), false)", "true"),
    Weakened("waits", "AND l.to_ms - greatest(l.from_ms, max(p.until_ms)) > l.limit_ms + {append} + 2 * {error}", ""),
    Weakened("able", "> r.due_ms + m.session_ms", "> m.session_ms"),
    Weakened("able", "> r.due_ms + m.session_ms", "> r.due_ms"),
    Weakened("able", "WHERE u.why = 'unready'", "WHERE false"),
    Weakened("able", "coalesce(min(r.at_ms), 9223372036854775807)", "min(r.at_ms)"),
    Weakened("able", "greatest(l.from_ms, m.joined_ms)", "l.from_ms"),
    Weakened("able", "AND NOT (m.member <=> l.member_a)", ""),
    Weakened("able", "m.eligible IS NULL OR", "true OR"),
    Weakened("able", "m.eligible IS NULL OR", ""),
    Weakened("able", "l.limit_ms + {append} + 2 * {error} AS short", "l.limit_ms AS short"),
    Weakened("able", "o.since_ms + o.short AS due_ms", "o.since_ms AS due_ms"),
    Weakened("able", "+ o.limit_ms + o.step_ms AS far_ms", "AS far_ms"),
    Weakened("able", "+ o.step_ms AS far_ms", "AS far_ms"),
    Weakened("able", "min(o.gone_ms), ", ""),
    Weakened("able", "min(o.seen_ms), ", ""),
    Weakened("able", ", min(s.from_ms)) AS fit_ms", ") AS fit_ms"),
    Weakened("able", "s.to_ms > o.since_ms", "true"),
    Weakened("able", "b.seat <> a.seat", "false"),
    Weakened("able", "AND b.seat <> a.seat", ""),
    Weakened("able", "AND b.b_late > a.from_ms", ""),
    Weakened("able", "b.a IS NULL AND", ""),
    Weakened("able", "AND b.given", ""),
    Weakened("able", "coalesce(l.passed, s.passed, 0)", "coalesce(l.passed, 0)"),
    Weakened("counting", "WHERE cause = 'genesis' AND counted", "WHERE cause = 'genesis'"),
    Weakened("counting", "AND r.base = b.base", ""),
    Weakened("counting", "cause IN ('obituary', 'forget') AND counted", "false"),
    Weakened("counting", "AND r.offset >= c.joined", ""),
    Weakened("counting", "r.offset <= w.gone", "r.offset < w.gone"),
    Weakened("counting", "WHERE before IS NULL OR n > before", ""),
    Weakened("counting", "n > before", "n >= before"),
    Weakened("counting", "NOT o.beat OR", ""),
    Weakened("counting", "OR k.ref IS NOT NULL", ""),
    Weakened("anomalies", "kind = 'step'", "false"),
    Weakened("anomalies", "clock_ms - at_ms", "at_ms - clock_ms"),
    Weakened("numbers", "coalesce(counted, false) AND coalesce", "coalesce"),
    Weakened("numbers", "n > known.n + 1", "n > known.n + 2"),
    Weakened("numbers", "CASE WHEN counted THEN struct(n, offset) END", "struct(n, offset)"),
    Weakened("numbers", "<= max", "< max"),
    Weakened("numbers", "PARTITION BY g, member, base ORDER", "PARTITION BY g, base ORDER"),
    Weakened("anomalies", "WHERE gap", "WHERE again"),
    Weakened("anomalies", "{numbers} WHERE again", "{numbers} WHERE false"),
    Weakened("anomalies", "HAVING count(DISTINCT hash) > 1", "HAVING count(*) > 1"),
    Weakened("anomalies", "GROUP BY g, member, base, n", "GROUP BY g, member, n"),
    Weakened("anomalies", "WHERE NOT counted GROUP", "GROUP"),
    Weakened("anomalies", "WHERE cause = 'genesis' AND counted", "WHERE cause = 'genesis'"),
    Weakened("anomalies", "m.g = w.g AND m.member = f.member", "false"),
    Weakened("anomalies", "m.g = w.g AND m.name = f.member", "false"),
    Weakened("anomalies", "NOT array_contains(split({words}, ', '), f.fault)", "false"),
)
"""Of the views that rules look at, and of those that are shown: what each makes is compared by itself."""
PLANTED_VIEWS: Final = (
    Weakened("anomalies", "kind = 'hole'", "false"),
    Weakened("anomalies", "ref - 1 AS to_offset", "ref AS to_offset"),
    Weakened("anomalies", "kind = 'defect'", "false"),
)
"""Of what each has a story of its own: see `test_planted`."""
