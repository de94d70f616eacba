"""What runs beside a user's script: it writes down where the script's time goes, and which models it uses."""
