"""People and transports: runs, queue, recovery, authorization, and one room per face."""
