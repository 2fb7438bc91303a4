def result_text(r):
    return str(r.columns) + str(r.fetchall()[:10])


def explanation_text(e):
    return e.to_json()


def budget_text(b):
    return str({s: getattr(b, s) for s in b.__slots__})
