def source(program, interface, declarations):
    return ""
