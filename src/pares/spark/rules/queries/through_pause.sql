-- R14: under a pause holders release. A holder that can't read the pause believes for as long as its lease lasts, and no longer.
WITH t AS (
  SELECT *, coalesce(stop_ms, alive_ms - step_ms) AS sure_ms,
         CAST(ceil(session_ms / (1 + drift)) AS BIGINT) + overlap_ms + 2 * {error} + {resolution} AS lease_ms
  FROM {terms} WHERE from_ms IS NOT NULL AND session_ms IS NOT NULL),
 x AS (
  SELECT t.*, p.offset AS pause, greatest(p.since_ms, t.from_ms) AS begin_ms, least(t.sure_ms, p.until_ms) AS led_ms
  FROM {pauses} p JOIN t ON t.g = p.g AND (p.role IS NULL OR p.role = t.role)
  WHERE t.to_offset IS NULL OR t.to_offset > p.offset)
SELECT g, CASE WHEN led_ms > begin_ms + lease_ms + step_ms THEN 'certain' ELSE 'possible' END AS verdict, role, seat,
       token AS token_a, CAST(NULL AS BIGINT) AS token_b, member AS member_a, CAST(NULL AS STRING) AS member_b,
       begin_ms AS from_ms, led_ms AS to_ms, array(pause, from_offset) AS offsets,
       concat(member, ' led on through the pause at ', pause, ' for ', led_ms - begin_ms, ' ms') AS evidence
FROM x WHERE led_ms > begin_ms + lease_ms
