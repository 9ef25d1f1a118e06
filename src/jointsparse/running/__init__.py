"""What a computation needs as it runs: warnings at the caller's line, threads, workspaces."""
