-- The runs of each series (a member's numbers under one base) in the order of their places, with what stands before and after each.
SELECT *, lag(high) OVER s AS reached, lag(last) OVER s AS before, lag(counted) OVER s AS counting, lead(low) OVER s AS after
FROM {found} WINDOW s AS (PARTITION BY g, member, base ORDER BY low, high, counted)
