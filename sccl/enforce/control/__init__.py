"""How running jobs come to another plan: who decides, who tells, and when all ranks switch."""
