"""A rule of a user, as several tests write it to disk."""

NO_PIPELINE = """
name = "no-pipeline"
code = "ME301"
summary = "s"
severity = "warning"
confidence = "high"
since = "1"
when = "pp > 1"
message = "pp is {pp}"
references = ["https://example.org"]
[[at]]
key = "pp"
"""
