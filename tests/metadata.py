"""Packages that are installed only as far as their metadata says so."""


def write_metadata(folder, versions):
    """Write what an installer leaves of packages into a folder of Python's path."""
    for name, version in versions.items():
        place = folder / f"{name.replace('-', '_')}-{version}.dist-info"
        place.mkdir(parents=True)
        head = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        (place / "METADATA").write_text(head)
