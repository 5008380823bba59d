-- How many members could have led meanwhile: that were in the group, ready, never drained, eligible, without another seat of the role,
-- and were not silent for longer than they had announced and a session. `fit`: for as long as is promised, from the stretch's beginning
-- or from their coming; `fit_long`: for a session more.
WITH tangled AS (
  SELECT DISTINCT g, member FROM (
    SELECT g, member, low, max(high) OVER (PARTITION BY g, member ORDER BY low ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS reached
    FROM {runs} WHERE counted) WHERE low <= reached),
 -- All that a member says without a pause is one run, unless its runs lie one within the other.
 words AS (
  SELECT u.g, u.member, u.low, u.from_ms, u.to_ms, u.due_ms FROM {runs} u LEFT ANTI JOIN tangled t ON t.g = u.g AND t.member = u.member
  WHERE u.counted
  UNION ALL
  SELECT r.g, r.member, r.offset, r.at_ms, r.at_ms, r.due_ms FROM {records} r LEFT SEMI JOIN tangled t ON t.g = r.g AND t.member = r.member
  WHERE r.counted),
 silences AS (
  SELECT r.g, r.member, r.before_ms AS from_ms, r.from_ms AS to_ms
  FROM (SELECT g, member, from_ms, lag(to_ms) OVER m AS before_ms, lag(due_ms) OVER m AS due_ms
        FROM words WINDOW m AS (PARTITION BY g, member ORDER BY low)) r
  JOIN {members} m ON m.g = r.g AND m.member = r.member WHERE r.from_ms - r.before_ms > r.due_ms + m.session_ms
  UNION ALL
  -- Not ready, until it says that it is (R19).
  SELECT u.g, u.member, u.at_ms, coalesce(min(r.at_ms), 9223372036854775807)
  FROM {words} u LEFT JOIN {words} r ON r.g = u.g AND r.member = u.member AND r.cause = 'ready' AND r.why IS NULL AND r.counted
   AND r.offset > u.offset
  WHERE u.why = 'unready' AND u.counted GROUP BY u.g, u.member, u.offset, u.at_ms),
 unfit AS (SELECT DISTINCT g, other AS member FROM {words} WHERE cause = 'ask' AND other IS NOT NULL),
 others AS (
  SELECT l.g, l.role, l.seat, l.from_ms, l.to_ms, l.limit_ms, m.member, m.gone_ms, m.seen_ms,
         greatest(l.from_ms, m.joined_ms) AS since_ms, l.limit_ms + {append} + 2 * {error} AS short, l.step_ms
  FROM {stretches} l JOIN {members} m ON m.g = l.g AND NOT m.administrator AND NOT (m.member <=> l.member_a)
   AND m.joined_ms IS NOT NULL
   AND (m.eligible IS NULL OR array_contains(from_json(m.eligible, 'array<string>'), l.role))
  LEFT ANTI JOIN unfit x ON x.g = m.g AND x.member = m.member),
 able AS (
  SELECT o.g, o.role, o.seat, o.from_ms, o.to_ms, o.member, o.since_ms + o.short AS due_ms,
         o.since_ms + o.short + o.limit_ms + o.step_ms AS far_ms,
         least(o.to_ms, min(o.gone_ms), min(o.seen_ms), min(s.from_ms)) AS fit_ms
  FROM others o LEFT JOIN silences s ON s.g = o.g AND s.member = o.member AND s.to_ms > o.since_ms
  GROUP BY o.g, o.role, o.seat, o.from_ms, o.to_ms, o.member, o.since_ms, o.short, o.limit_ms, o.step_ms),
 free AS (
  SELECT a.* FROM able a LEFT ANTI JOIN {believed} b ON b.g = a.g AND b.role = a.role AND b.member = a.member AND b.seat <> a.seat
   AND b.a_early < a.to_ms AND b.b_late > a.from_ms),
 counts AS (
  SELECT g, role, seat, from_ms, to_ms, count(*) FILTER (WHERE fit_ms >= due_ms) AS fit, count(*) FILTER (WHERE fit_ms >= far_ms) AS fit_long
  FROM free GROUP BY g, role, seat, from_ms, to_ms),
 silent AS (
  SELECT l.g, l.role, l.seat, l.from_ms, l.to_ms, count(*) AS passed
  FROM {stretches} l JOIN {believed} b ON b.g = l.g AND b.role = l.role AND b.seat = l.seat AND b.a IS NULL AND b.given
   AND b.a_early < l.to_ms AND b.b_late > l.from_ms
  GROUP BY l.g, l.role, l.seat, l.from_ms, l.to_ms)
SELECT l.g, l.role, l.seat, l.token_a, l.token_b, l.member_a, l.member_b, l.from_ms, l.to_ms, l.limit_ms, l.offsets, l.induced,
       l.step_ms, coalesce(l.passed, s.passed, 0) AS passed, coalesce(c.fit, 0) AS fit, coalesce(c.fit_long, 0) AS fit_long
FROM {stretches} l
LEFT JOIN counts c ON c.g = l.g AND c.role = l.role AND c.seat = l.seat AND c.from_ms = l.from_ms AND c.to_ms = l.to_ms
LEFT JOIN silent s ON s.g = l.g AND s.role = l.role AND s.seat = l.seat AND s.from_ms = l.from_ms AND s.to_ms = l.to_ms
