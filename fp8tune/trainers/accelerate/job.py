"""A launch file and its training arguments as a job."""
