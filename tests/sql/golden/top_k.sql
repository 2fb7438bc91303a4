-- title: The largest groups, one more than may come out
-- world: small
-- with: 'max_groups_contributed': 3
SELECT k, COUNT(DISTINCT uid) AS people FROM visits GROUP BY k ORDER BY people DESC LIMIT 5;

-- __dpsql_released_0, as one: a8d5f887d97d74c0
SELECT
  ROW_NUMBER() OVER () AS "__dpsql_rid",
  "__dpsql_k0",
  "__dpsql_m0"
FROM (
  SELECT
    "__dpsql_k0",
    COUNT(*) AS "__dpsql_m0"
  FROM (
    SELECT
      *,
      DENSE_RANK() OVER (
        PARTITION BY "__dpsql_unit"
        ORDER BY HASH(HASH(7, "__dpsql_unit", "__dpsql_k0")), "__dpsql_k0"
      ) AS "__dpsql_rank",
      ROW_NUMBER() OVER (
        PARTITION BY "__dpsql_unit"
        ORDER BY HASH(HASH(7, "__dpsql_unit", "__dpsql_k0")), "__dpsql_k0"
      ) AS "__dpsql_row",
      RANK() OVER (
        PARTITION BY "__dpsql_unit"
        ORDER BY HASH(HASH(7, "__dpsql_unit", "__dpsql_k0")), "__dpsql_k0"
      ) AS "__dpsql_first"
    FROM (
      SELECT
        "Uid" AS "__dpsql_unit",
        "k" AS "__dpsql_k0"
      FROM "visits"
      WHERE
        NOT "Uid" IS NULL
    )
  )
  WHERE
    "__dpsql_rank" <= 3 AND (
      "__dpsql_row" - "__dpsql_first"
    ) < 1
  GROUP BY
    "__dpsql_k0"
  ORDER BY
    "__dpsql_m0" DESC,
    "__dpsql_k0"
  LIMIT 1001
);

-- postgresql: 8c35748c911d3122
-- spark: a118e9756e1d3947

-- title: The largest groups, a unit in as many as it likes
-- world: small
-- with: 'max_groups_contributed': 'unlimited'
SELECT s, COUNT(DISTINCT uid) AS people FROM visits GROUP BY s ORDER BY people DESC LIMIT 5;

-- __dpsql_released_0, as one: 866b04d3305b1bd6
SELECT
  ROW_NUMBER() OVER () AS "__dpsql_rid",
  "__dpsql_k0",
  "__dpsql_m0"
FROM (
  SELECT
    "__dpsql_k0",
    COUNT(DISTINCT "__dpsql_unit") AS "__dpsql_m0"
  FROM (
    SELECT
      "Uid" AS "__dpsql_unit",
      "s" AS "__dpsql_k0"
    FROM "visits"
    WHERE
      NOT "Uid" IS NULL
  )
  GROUP BY
    "__dpsql_k0"
  ORDER BY
    "__dpsql_m0" DESC,
    "__dpsql_k0"
  LIMIT 1001
);

-- postgresql: 56e5b4b0a77da1a6
-- spark: 4836181fd5314a93

-- title: The largest groups by rows
-- world: small
-- with: 'max_rows_contributed': 4
SELECT s, k, COUNT(*) AS rows FROM visits GROUP BY s, k ORDER BY rows DESC LIMIT 3;

-- __dpsql_released_0, as one: 395cef49a1c2a7ad
SELECT
  ROW_NUMBER() OVER () AS "__dpsql_rid",
  "__dpsql_k0",
  "__dpsql_k1",
  "__dpsql_m0"
FROM (
  SELECT
    "__dpsql_k0",
    "__dpsql_k1",
    CAST(GREATEST(-4611686018427387904, LEAST(4611686018427387904, COALESCE(SUM("__dpsql_m0"), 0))) AS BIGINT) AS "__dpsql_m0"
  FROM (
    SELECT
      "__dpsql_unit",
      "__dpsql_k0",
      "__dpsql_k1",
      LEAST(COUNT(*), 4) AS "__dpsql_m0"
    FROM (
      SELECT
        "Uid" AS "__dpsql_unit",
        "s" AS "__dpsql_k0",
        "k" AS "__dpsql_k1"
      FROM "visits"
      WHERE
        NOT "Uid" IS NULL
    )
    GROUP BY
      "__dpsql_unit",
      "__dpsql_k0",
      "__dpsql_k1"
  )
  GROUP BY
    "__dpsql_k0",
    "__dpsql_k1"
  ORDER BY
    "__dpsql_m0" DESC,
    "__dpsql_k0",
    "__dpsql_k1"
  LIMIT 1001
);

-- postgresql: 641fefe2d0a89e0f
-- spark: 07179327539df0f4

-- title: The largest groups of a known domain
-- world: small
SELECT c, COUNT(DISTINCT uid) AS people FROM visits GROUP BY c ORDER BY people DESC LIMIT 2;

-- __dpsql_released_0, as one: 00422be492d3d609
SELECT
  ROW_NUMBER() OVER () AS "__dpsql_rid",
  "__dpsql_k0",
  "__dpsql_m0"
FROM (
  SELECT
    "__dpsql_k0",
    COUNT(DISTINCT "__dpsql_unit") AS "__dpsql_m0"
  FROM (
    SELECT
      *
    FROM (
      SELECT
        "Uid" AS "__dpsql_unit",
        LIST_POSITION(
          [TRY_CAST('red' AS TEXT), TRY_CAST('green' AS TEXT), TRY_CAST('blue' AS TEXT)],
          "c"
        ) AS "__dpsql_k0"
      FROM "visits"
      WHERE
        NOT "Uid" IS NULL
    )
    WHERE
      NOT "__dpsql_k0" IS NULL
  )
  GROUP BY
    "__dpsql_k0"
);

-- postgresql: 5e5807e5fbf51115
-- spark: dd6505d9b300cb43

