"""Ground floor: text, numbers, money, files, frozen models and the tables that everything else builds on."""
