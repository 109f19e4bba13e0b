"""Show results as drawings, charts, web pages and text."""
