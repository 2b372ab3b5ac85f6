"""When and where an operator is computed: schedules, directives, legality, search spaces and strategies."""
