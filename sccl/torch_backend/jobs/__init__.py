"""Jobs under the backend: compiled plans, recordings, and replanning while they run."""
