-- R3, R3a, R5, R6, R7, R9: what the fold made of claims and tokens, against the records themselves.
-- Of what stands before the first record that counts there is no opinion: the log's beginning is gone.
WITH begun AS (SELECT g, min(offset) AS low FROM {counting} GROUP BY g),
 changes AS (
  SELECT /*+ BROADCAST(b) */ f.g, f.offset, f.at_ms, f.role, f.seat, f.token, f.member, f.cause, f.kind FROM {facts} f
  JOIN begun b ON b.g = f.g AND f.offset >= b.low
  WHERE (f.kind = 'gained' AND f.cause IN ('claim', 'transfer')) OR f.kind = 'lost'),
 -- With the holders that a claim supersedes: one, if all is well. Before the join, whose order this is, too.
 met AS (
  SELECT *, collect_list(CASE WHEN kind = 'lost' THEN member END) OVER (PARTITION BY g, offset, role, seat) AS losers FROM changes),
 -- The record that a claim names, if it is one of that member's.
 named AS (
  SELECT c.g, c.offset, s.offset AS named, s.next FROM {counting} c
  JOIN {counting} s ON s.g = c.g AND s.member = c.other AND s.offset = c.ref WHERE c.cause = 'claim'),
 -- What stands in the log at the place of each, looked up once.
 placed AS (
  SELECT f.*, c.other, c.in_force, n.named, n.next,
         coalesce(c.cause = f.cause AND CASE
           WHEN f.kind = 'gained' AND f.cause = 'claim' THEN c.member = f.member AND c.role = f.role AND c.seat = f.seat
           WHEN f.kind = 'gained' THEN c.other = f.member AND c.role = f.role AND c.seat = f.seat
           WHEN f.cause IN ('release', 'transfer')
             THEN c.member = f.member AND c.role = f.role AND c.seat = f.seat AND c.token = f.token
           WHEN f.cause = 'claim' THEN c.other = f.member AND c.role = f.role AND c.seat = f.seat
           WHEN f.cause = 'obituary' THEN c.other = f.member
           WHEN f.cause = 'leave' THEN c.member = f.member END, false) AS there
  FROM met f LEFT JOIN {counting} c ON c.g = f.g AND c.offset = f.offset
  LEFT JOIN named n ON n.g = f.g AND n.offset = f.offset),
 looked AS (SELECT *, posexplode_outer(CASE WHEN kind = 'gained' AND cause = 'claim' THEN losers END) AS (nth, loser) FROM placed),
 changed AS (
  -- A claim stands if what it supersedes is still so at its place.
  SELECT g, role, seat, token AS token_a, member AS member_a, at_ms, offset, explode(filter(array(
    named_struct('wrong', CASE
      WHEN kind = 'lost' AND (there OR cause = 'genesis') THEN NULL
      WHEN kind = 'lost' THEN concat('no ', cause, ' that could end its term stands there')
      WHEN cause = 'transfer' AND there THEN NULL
      WHEN cause = 'transfer' THEN 'no transfer to its new holder that counts stands there'
      WHEN NOT there THEN 'no claim of its new holder that counts stands there'
      WHEN loser IS NULL AND other IS NOT NULL THEN 'the claim names a holder of a free seat'
      WHEN loser IS NOT NULL AND NOT (other <=> loser) THEN 'the claim does not name the holder'
      WHEN loser IS NOT NULL AND named IS NULL THEN 'the record that the claim names is none of the holder that counts'
      WHEN loser IS NOT NULL AND next < offset THEN 'the holder has written since' END,
      'member_b', loser),
    named_struct('wrong', CASE WHEN kind = 'gained' AND token <> in_force + offset AND coalesce(nth, 0) = 0
      THEN concat('its token should be ', in_force + offset) END, 'member_b', CAST(NULL AS STRING))),
    each -> each.wrong IS NOT NULL)) AS what
  FROM looked),
 -- Of each term: where the fold ends it (`until`), and the first record that does so by its name. The frame goes backwards, as
 -- one of what follows is gone through anew for each row. Both are of one order, so that rows are sorted once.
 seats AS (
  SELECT g, role, seat, token, member, at_ms, offset, kind AS what, cause FROM changes
  UNION ALL SELECT g, role, seat, token, member, at_ms, offset, 'ends', cause FROM {counting} WHERE cause IN ('release', 'transfer')),
 held AS (
  SELECT *,
         min(CASE WHEN what = 'ends' THEN struct(offset, at_ms, cause) END)
           OVER (PARTITION BY g, role, seat, token, member ORDER BY offset DESC ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
           AS ends
  FROM (SELECT *, min(CASE WHEN what = 'lost' THEN offset END)
          OVER (PARTITION BY g, role, seat, token ORDER BY member, offset DESC ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING)
          AS until
        FROM seats)),
 -- A leave and an obituary end all that their member holds. [all ends looked up by the holder: each term of a member met the ends
 -- of all its other terms]
 gone AS (
  SELECT g, member, array_sort(collect_list(place)) AS places
  FROM (SELECT g, member, struct(offset, at_ms, cause) AS place FROM {counting} WHERE cause = 'leave'
        UNION ALL SELECT g, other, struct(offset, at_ms, cause) FROM {counting} WHERE cause = 'obituary')
  GROUP BY g, member),
 ended_by AS (
  SELECT /*+ {few_gone} */ h.*, least(h.ends, get(filter(o.places, place -> place.offset > h.offset), 0)) AS first_end
  FROM held h LEFT JOIN gone o ON o.g = h.g AND o.member = h.member WHERE h.what = 'gained'),
 kept AS (
  SELECT g, role, seat, token AS token_a, member AS member_a, CAST(NULL AS STRING) AS member_b, first_end.at_ms, first_end.offset,
         concat('its ', first_end.cause, ' should have ended its term') AS wrong
  FROM ended_by WHERE until IS NULL OR until > first_end.offset)
SELECT g, 'certain' AS verdict, role, seat, token_a, CAST(NULL AS BIGINT) AS token_b, member_a, member_b, at_ms AS from_ms,
       at_ms AS to_ms, array(offset) AS offsets, concat('at ', offset, ': ', wrong) AS evidence
FROM (SELECT g, role, seat, token_a, member_a, what.member_b, at_ms, offset, what.wrong FROM changed UNION ALL SELECT * FROM kept)
WHERE wrong IS NOT NULL
