"""Its loader: defaults, values as they are, and one check."""

from fp8tune.trainers.faults import Fault, Loaded


class Loader:
    """Holds configs of one version."""

    def __init__(self, schema):
        self.schema = schema

    def load(self, raw):
        """Hold parsed TOML as the trainer would."""
        values = {n: key.effective_default for n, key in self.schema.dotted_keys()}
        written, faults = set(), []
        for section, table in raw.items():
            for name, value in table.items():
                key = f"{section}.{name}"
                if key not in values:
                    facts = {"key": key, "name": name, "table": f"[{section}]"}
                    faults.append(Fault("unknown-key", (section, name), facts))
                    continue
                values[key] = value
                written.add(key)
        if values["run.batch"] % 2:
            facts = {"key": "run.batch", "value": values["run.batch"]}
            faults.append(Fault("toy-odd-batch", ("run", "batch"), facts))
        return Loaded(values, written, faults)
