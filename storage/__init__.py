"""Where jobs, dead letters, dedup marks and reconciliation entries are kept. Keeps facts, decides nothing."""
