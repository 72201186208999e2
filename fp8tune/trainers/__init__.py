"""What each trainer accepts, and how its config describes a job."""
