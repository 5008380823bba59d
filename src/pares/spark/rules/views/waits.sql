-- Stretches in which a seat had no leader for longer than promised and allowed, pauses aside. `passed`: a member held the seat
-- meanwhile and never said that it believed.
WITH limits AS (SELECT g, CAST(max(ceil(session_ms / (1 - drift))) AS BIGINT) AS limit_ms FROM {members} GROUP BY g),
 w AS (
  SELECT g, role, seat, from_token AS token_a, token AS token_b, from_member AS member_a, to_member AS member_b, free_ms AS from_ms,
         at_ms AS to_ms, limit_ms, passed, to_offset AS lost_at, from_offset AS gained_at
  FROM {takeovers} WHERE limit_ms IS NOT NULL
  UNION ALL
  SELECT u.g, u.role, u.seat, u.token_a, u.token_b, u.member_a, u.member_b, u.free_ms, u.to_ms, l.limit_ms, CAST(NULL AS INT),
         u.lost_at, u.gained_at
  FROM {gaps} u JOIN limits l ON l.g = u.g WHERE l.limit_ms IS NOT NULL AND (u.token_a IS NULL OR u.token_b IS NULL)),
 long AS (
  SELECT w.*, q.induced, q.step_ms FROM w JOIN {groups} q ON q.g = w.g
  WHERE w.to_ms - w.from_ms > w.limit_ms + {append} + 2 * {error})
SELECT l.g, l.role, l.seat, l.token_a, l.token_b, l.member_a, l.member_b, greatest(l.from_ms, max(p.until_ms)) AS from_ms, l.to_ms,
       l.limit_ms, l.passed, array(l.lost_at, l.gained_at) AS offsets, l.induced, l.step_ms
FROM long l LEFT JOIN {pauses} p ON p.g = l.g AND (p.role IS NULL OR p.role = l.role) AND p.since_ms < l.to_ms
 AND coalesce(p.until_ms, l.to_ms) > l.from_ms
GROUP BY l.g, l.role, l.seat, l.token_a, l.token_b, l.member_a, l.member_b, l.from_ms, l.to_ms, l.limit_ms, l.passed, l.lost_at,
         l.gained_at, l.induced, l.step_ms
HAVING NOT coalesce(bool_or(p.offset IS NOT NULL AND p.until_ms IS NULL), false)
   AND l.to_ms - greatest(l.from_ms, max(p.until_ms)) > l.limit_ms + {append} + 2 * {error}
