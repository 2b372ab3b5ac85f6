"""Where the stages of a program are computed: the choices, their directives, and the search that names one of them."""
