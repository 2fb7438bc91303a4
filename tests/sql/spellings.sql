1_000 + k
0x1F + k
0x1F
0b101 + k
0o17 + k
1__0 + k
k + 1.e3
k + .5
k + 5.
k + 1e2
'a' 'b' || s
s || 'a' 'b'
s || 'a'\n 'b'
s = 's1'\n'a'
e'a\'b' || s
E'\x41' || s
E'a\nb' || s
e'a''b' || s
'a\' || s
'a\nb' || s
$$a$$ || s
$t$a'b$t$ || s
x'41'
N'a' || s
U&'a' || s
"s"
`s`
!flag
! flag = true
!(k = 2)
k!
#1
k == 2
k != 2
k <> 2
k // 2
-k // 2
k // -2
n // 3
-n // 3
n % 3
-n % 3
n % -3
k / 2
n / 3
n / 3 * 3
n // 3 * 3
n * 3 // 2
n - 3 - 2
n - (3 - 2)
n / (3 / 2)
n / (k / 2)
n // (k // 2)
n % (k % 4)
n - -3
n - - -3
- - n
-(-n)
-n - -n
+n
+ + n
k ^ 2
k ** 2
-k ^ 2
-k ** 2
2 ^ k ^ 2
2 ** k ** 2
2 ^ 3 ^ k
k * 2 ^ 2
(k ^ 2) ^ 2
k ^ (2 ^ 2)
k & 3
k | 3
k << 1
k >> 1
~k
k # 3
xor(k, 3)
k & 3 = 3
k | 1 + 2
@ (k - 4)
@ -k
@ -k + 1
|/ k
k << 1 + 1
s ~ 's1'
s ~* 'S1'
s !~ 's1'
s ~~ 's%'
s !~~ 's1'
s ~~* 'S1'
s !~~* 'S1'
s ~~~ 's*'
s GLOB 's[12]'
s NOT GLOB 's[12]'
s SIMILAR TO 's(1|2)'
s NOT SIMILAR TO 's(1|2)'
s LIKE 's!1' ESCAPE '!'
s LIKE 's!%' ESCAPE '!'
s NOT LIKE 's!1' ESCAPE '!'
s ILIKE 'S!1' ESCAPE '!'
s LIKE 's1' = true
s LIKE 's' || '1'
NOT s LIKE 's1'
s NOT LIKE 's1'
s LIKE ALL ('s%', '%1')
s LIKE ANY ('s1', 's2')
s COLLATE nocase
s COLLATE nocase = 'S1'
s COLLATE "nocase"
k NOT NULL
k NOTNULL
k ISNULL
k IS NOT NULL
k IS NULL = flag
k NOT NULL = flag
NOT k IS NULL
NOT k = 2
NOT k IN (2)
NOT flag = flag
NOT flag IS NULL
NOT NOT flag
k IS TRUE
flag IS NOT TRUE
flag IS UNKNOWN
flag IS NOT UNKNOWN
k = 2 = flag
flag = (k = 2)
flag = k = 2
k < 3 = flag
(k < 3) < flag
k < 3 < flag
k = 2 IS NULL
k IS DISTINCT FROM 2 = flag
k BETWEEN 1 AND 2 = flag
k BETWEEN 1 AND 3 AND flag
k NOT BETWEEN 1 AND 3 OR flag
k BETWEEN SYMMETRIC 3 AND 1
k IN (1, 2) = flag
k IN (1, NULL)
k NOT IN (1, NULL)
k IN [1, 2]
k IN 1
s IN 's1'
s IN ('s1',)
flag OR k = 1 AND n = 2
flag AND k = 1 OR n = 2
flag OR NOT k = 1 AND n = 2
(flag OR k = 1) AND n = 2
NOT (flag OR k = 1)
NOT flag OR k = 1
s || k
s || k + 1
s || k * 2
k + 1 || s
'a' || s || 'b'
s || NULL
concat(s, NULL)
concat(s, k)
concat_ws('-', s, k)
k::INT::VARCHAR
-k::VARCHAR
(-k)::VARCHAR
k + 1::VARCHAR
k::DECIMAL(5,1)
k::DECIMAL
k::NUMERIC(4)
k::FLOAT
k::REAL
k::INT2
k::INT4
k::INT8
k::SIGNED
k::LONG
k::STRING
k::TEXT
k::CHAR
k::CHAR(1)
s::VARCHAR(1)
s::CHAR(1)
s::BPCHAR
k::BOOL
k::LOGICAL
k::HUGEINT
k::UHUGEINT
k::UTINYINT
k::INT1
k::BIT
k::BLOB
k::DOUBLE PRECISION
k::INT[]
[k]::INT[]
[k]
[k, n][1]
[k, n][0]
[k, n][-1]
[k, n][1:2]
[k, n][k]
s[1]
s[1:1]
s[-1]
s[0]
s[1:]
array[k, n]
{'a': k}
{'a': k}.a
{a: k}
{'a': k}['a']
struct_pack(a := k).a
row(k, n)
(k, n)
(k, n) = (1, 2)
MAP {'a': k}['a']
visits.k
main.visits.k
visits.s.a
list_transform([k], x -> x + 1)
list_transform([k], lambda x: x + 1)
[x + 1 for x in [k]]
list_filter([k, n], x -> x > 2)
date_trunc('month', d)
date_trunc('MONTH', d)
date_trunc('months', d)
date_trunc(d, 'month')
date_trunc('week', d)
date_trunc('quarter', ts)
date_trunc('day', ts)
datetrunc('month', d)
time_bucket(INTERVAL 1 WEEK, d)
date_part('year', d)
date_part('dow', d)
date_part('isodow', d)
date_part('week', d)
date_part('epoch', ts)
datepart('month', d)
extract(year FROM d)
extract('year' FROM d)
extract(dow FROM d)
extract(isodow FROM d)
extract(doy FROM d)
extract(week FROM d)
extract(weekday FROM d)
extract(dayofweek FROM d)
extract(quarter FROM d)
extract(epoch FROM ts)
extract(hour FROM ts)
extract(second FROM ts)
extract(decade FROM d)
extract(century FROM d)
extract(microsecond FROM ts)
extract(millisecond FROM ts)
extract(yearweek FROM d)
extract(isoyear FROM d)
year(d)
month(d)
day(d)
dayofweek(d)
isodow(d)
weekday(d)
dayofmonth(d)
dayofyear(d)
week(d)
weekofyear(d)
yearweek(d)
quarter(d)
hour(ts)
minute(ts)
second(ts)
monthname(d)
dayname(d)
last_day(d)
date_diff('day', DATE '2024-01-01', d)
date_diff('month', d, DATE '2024-03-01')
date_diff('week', DATE '2024-01-03', d)
datediff('day', DATE '2024-01-01', d)
date_sub('day', DATE '2024-01-01', d)
datesub('week', DATE '2024-01-03', d)
date_diff('hour', TIMESTAMP '2024-01-01', ts)
d - DATE '2024-01-01'
d + 1
d - 1
1 + d
d + INTERVAL 1 DAY
d + INTERVAL '1' DAY
d + INTERVAL '1 day'
d + INTERVAL (k) DAY
d + INTERVAL 1 MONTH
d - INTERVAL 2 WEEKS
d + INTERVAL '1 month 2 days'
d + INTERVAL '1-2' YEAR TO MONTH
d + to_days(k)
ts - TIMESTAMP '2024-01-01'
ts - INTERVAL 1 HOUR
ts AT TIME ZONE 'UTC'
date_add(d, INTERVAL 1 DAY)
date_add(d, 1)
age(d)
DATE '2024-01-05'
DATE('2024-01-05')
date(ts)
d::DATE
ts::DATE
ts::TIME
d::TIMESTAMP
d::TIMESTAMPTZ
DATE '2024-1-5' < d
d > '2024-01-05'
'2024-01-05' < d
TIMESTAMP '2024-01-01 10:00:00' < ts
d = '2024-01-05'::DATE
strftime(d, '%Y')
strftime('%Y', d)
make_date(2024, 1, k)
current_date > d
substring(s, 1, 1)
substring(s, 2)
substring(s FROM 2)
substring(s FROM 1 FOR 1)
substring(s FOR 1)
substr(s, 1, 1)
substring(s, 0)
substring(s, 0, 2)
substring(s, -1)
substring(s, -2, 1)
substring(s, 1, -1)
substring(s, k)
left(s, 1)
left(s, -1)
right(s, 1)
right(s, -1)
length(s)
len(s)
char_length(s)
character_length(s)
strlen(s)
bit_length(s)
octet_length(s::BLOB)
upper(s)
ucase(s)
lower(s)
lcase(s)
initcap(s)
trim(s)
trim('s' FROM s)
trim(BOTH 's' FROM s)
trim(LEADING 's' FROM s)
trim(TRAILING '1' FROM s)
trim(s, 's')
ltrim(s, 's')
rtrim(s, '1')
ltrim(s)
rtrim(s)
position('1' IN s)
position('1', s)
strpos(s, '1')
instr(s, '1')
contains(s, '1')
s ^@ 's'
starts_with(s, 's')
startswith(s, 's')
prefix(s, 's')
ends_with(s, '1')
suffix(s, '1')
replace(s, 's', 't')
overlay(s PLACING 'x' FROM 1)
lpad(s, 4, '0')
rpad(s, 4, '0')
repeat(s, 2)
reverse(s)
ascii(s)
chr(65 + k)
translate(s, 's', 't')
split_part(s, 's', 2)
s.upper()
s.length() + 1
abs(n)
abs(-n)
ceil(x)
ceiling(x)
floor(x)
round(x)
round(x, 1)
round(n, -1)
round(x + 0.5)
trunc(x)
trunc(x, 1)
truncate(x)
sign(n)
sqrt(k)
cbrt(k)
exp(k)
ln(k + 1)
log(k + 1)
log10(k + 1)
log2(k + 1)
log(2, k + 1)
log(k + 2, 8)
pow(k, 2)
power(k, 2)
mod(n, 3)
mod(-n, 3)
fmod(n, 3)
divide(n, 3)
add(n, 3)
subtract(n, 3)
multiply(n, 3)
greatest(k, n)
least(k, n)
greatest(k, NULL)
least(k, n, 2)
coalesce(k, n)
coalesce(k, NULL, 3)
ifnull(k, 0)
nvl(k, 0)
nullif(k, 2)
isnull(k)
if(flag, 1, 2)
iif(flag, 1, 2)
iff(flag, 1, 2)
if(flag, 1)
CASE flag WHEN true THEN 1 WHEN false THEN 2 END
CASE k WHEN 1 THEN 'a' WHEN NULL THEN 'b' ELSE 'c' END
CASE WHEN flag THEN k ELSE 'x' END
CASE WHEN k THEN 1 ELSE 2 END
CASE k WHEN 1, 2 THEN 'a' END
try(k)
TRY_CAST(s AS INT)
CAST(s AS INT)
CAST(right(s, 1) AS INT)
right(s, 1)::INT + 1
cast(k AS VARCHAR) || s
CAST(x AS INT)
CAST(x AS DECIMAL(6, 2))
x::INT
(x + 0.5)::INT
round(x)::INT
x::BIGINT // 2
x // 2
x % 2
x / 0
n / 0
n // 0
n % 0
x / NULL
amount
amount / 3
amount * 2
amount // 3
amount % 7
amount + 0.1
amount::INT
amount = 10
amount > 10.5
isnan(x)
isinf(x)
isfinite(x)
x = 'nan'
x > 'NaN'::DOUBLE
k = '2'
'2' = k
k > '1' AND k < '4'
k = 2.0
k = 2.5
k = 's1'
s = 1
s > 1
flag = 1
flag = 'true'
flag + 1
true + k
n + flag::INT
k AND flag
NOT k
bool_and
k IN ('1', '2')
k IN (1.0, 2.5)
s IN (1, 2)
k BETWEEN '1' AND '3'
d BETWEEN '2024-01-05' AND '2024-01-20'
d IN ('2024-01-05', DATE '2024-01-06')
coalesce(s, k)
greatest(s, 's2')
hash(k)
md5(s)
k <=> 2
k IS NOT DISTINCT FROM 2
k IS DISTINCT FROM NULL
(k)
((k))
(SELECT k)
1 + (2 + k)
k - (n - 2)
k * (n + 2)
(k + n) * 2
k * n + 2 * k
(k + 1) % 2
k + 1 % 2
(n - 2) // 2
-(k + 1)
-(k) ^ 2
(-k) ^ 2
- 2 ^ k
NOT (k) = 2
NOT -k = 2
(NOT flag) = flag
(k = 2) IS NULL
(flag OR flag) IS NOT TRUE
(k IN (1)) IN (true)
(s || 'a') LIKE '%a'
(s LIKE 's1') IS NULL
s LIKE 's1' IS NULL
s LIKE 's1' AND flag
(flag AND k = 1) = (n = 2)
(k IS NULL)::INT
(k > 2)::INT + 1
k > 2::INT
-(k::INT)
- k::DOUBLE ^ 2
(k + 1)::VARCHAR
(CASE WHEN flag THEN 1 END) + 1
CASE WHEN flag THEN 1 END + 1
k / 2 / 2
k / (2 * 2)
2 * (k / 2)
2 * k / 2
1 - k + 2
1 - (k + 2)
k % 3 * 2
k % (3 * 2)
2 * (k % 3)
2 * k % 3
k // 2 * 2
2 * (k // 2)
2 * k // 2
7 // 2 // 2 + k
s || (k || 'a')
interval 1 day
k -> 1
k ->> 1
s -> '$.a'
s ->> 'a'
k :: int
k.count
k IS JSON
'a' IS NULL
NULL
NULL::INT
NULL + k
TRUE
rowid
date_trunc(s, ts)
date_trunc(d, '2024-01-01')
date_diff(s, d, d)
date_trunc('m', ts)
date_trunc('M', ts)
date_trunc('mon', ts)
date_trunc('w', ts)
date_trunc('q', ts)
date_trunc('y', ts)
date_trunc('h', ts)
date_trunc('s', ts)
date_trunc('isoweek', ts)
date_trunc('decade', d)
date_trunc('c', ts)
date_diff('m', ts, TIMESTAMP '2024-02-01')
date_diff('mon', d, DATE '2024-05-01')
date_diff('q', d, DATE '2024-05-01')
extract(m FROM ts)
extract(mon FROM ts)
extract(s FROM ts)
d + INTERVAL 1 m
d + INTERVAL 1 mon
d + INTERVAL '1' m
ts + INTERVAL 90 s
k IN (1, 2) AND s IN ('s1')
n BETWEEN 1 AND 2 + 3
n BETWEEN k AND k * 2 AND flag
- n % 5
(n - 3) % 5
-7 // 2 + k
(x * 2)::INT
-x::INT
x::VARCHAR
amount::VARCHAR
flag::INT
flag::VARCHAR
ts::VARCHAR
d::VARCHAR
'1' || 2
k || ''
x = 0.1 + 0.2
1e0 + k
k = 1e0
9223372036854775807 + k
k * 9223372036854775807
-9223372036854775808 + k
n::UTINYINT
(n - 10)::UTINYINT
k::TINYINT * 100
n * 100000000
dateadd(day, 1, ts)
DATEADD('month', -1, d)
DATEADD(day, k, d)
dateadd(day, 1.5, d)
date_add('day', 3, d)
DATE_SUB(d, INTERVAL 1 MONTH)
date_sub('day', DATE '2024-01-01', d)
timestamp_sub(ts, INTERVAL 90 MINUTE)
DATETRUNC(month, d)
DATETRUNC(week, d)
DATE_TRUNC(d, MONTH)
DATE_TRUNC(d, WEEK)
DATE_TRUNC(d, ISOWEEK)
DATE_TRUNC(month, day)
TIMESTAMP_TRUNC(ts, HOUR)
TIMESTAMP_TRUNC(ts, WEEK)
DATEDIFF(day, d, DATE '2024-03-01')
DATEDIFF(week, d, DATE '2024-03-01')
DATEDIFF(DATE '2024-03-01', d)
DATE_DIFF(DATE '2024-03-01', d, MONTH)
TIMESTAMP_DIFF(ts, TIMESTAMP '2024-01-01', DAY)
DATE(2024, 1, 5) > d
timestamp(d)
datetime(d)
eomonth(d)
IFF(flag, s, 'no')
IFF(flag, s)
isnull(n, 7)
NOT isnull(k)
nvl2(n, 1, 2)
zeroifnull(n)
SAFE_DIVIDE(n, k - 2)
10 - SAFE_DIVIDE(n + 1, k)
CAST(k AS FLOAT64)
`k` + visits.`n`
DECODE(k, 1, 'a', 2, 'b', 'c')
decode(s, NULL, 'none', 's1', 'one')
CHOOSE(k, 'a', 'b')
elt(k + 1, 'a', 'b')
FIELD(s, 's2', 's1')
multiIf(k < 1, 'a', k < 3, 'b', 'c')
DIV0(n, k - 1)
DIV0NULL(n, nullif(k, 2) - 1)
BOOLAND(flag, k = 2)
BOOLOR(flag, k = 2)
TIME(ts) > TIME '10:00:00'
TIME_SLICE(ts, 2, 'HOUR')
LAST_DAY(d, 'month')
DATEADD(week, 1, '2024-01-20') > d
DATE_SUB('2024-01-20 10:30', INTERVAL 30 MINUTE) > ts
intDiv(n, 3)
BITAND(k, 2)
bitwise_or(k, 2)
bit_and(k, 1)
bitTest(k, 1)
SHIFTRIGHT(n, 1)
REGEXP_SUBSTR(c, '[d-g]+')
REGEXP_CONTAINS(c, r'^\w{3}$')
FIND_IN_SET('s1', s || ',x') > 0
FIND_IN_SET(s, 's1,s2') > 0
has(splitByChar('e', c), 'r')
ARRAY_LENGTH(string_to_array(c, 'e'), 1)
TO_DATE('05.01.2024', 'DD.MM.YYYY') > d
STR_TO_DATE('2024-01-05', '%Y-%m-%d') > d
PARSE_DATE('%Y%m%d', '20240105') > d
TO_TIMESTAMP('2024-01-05 10:00:00.0', 'YYYY-MM-DD HH24:MI:SS.US') > ts
TO_DATE(ts)
TRUNC(d, 'MM')
DATEADD(month, DATEDIFF(month, 0, d), 0)
DATE_TRUNC(d, WEEK(MONDAY))
DATENAME(weekday, d)
DATEPART(dayofyear, d)
CONVERT(VARCHAR(7), ts, 120)
CONVERT(VARCHAR, d, 103)
CONVERT(DATE, ts)
TRY_CONVERT(INT, s)
TO_VARCHAR(d, 'YYYY-MM')
formatDateTime(ts, '%Y-%m %H:%i')
toStartOfInterval(ts, INTERVAL 15 minute)
toStartOfFiveMinutes(ts)
date_bin('15 minutes', ts, TIMESTAMP '2001-01-01')
TIMESTAMP_DIFF(TIMESTAMP '2024-03-01', ts, HOUR)
DATETIME_DIFF(TIMESTAMP '2024-03-01', ts, DAY)
MONTHS_BETWEEN(DATE '2024-02-29', d)
JULIANDAY(d) - JULIANDAY('2024-01-01')
width_bucket(k, [1, 3])
