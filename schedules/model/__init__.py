"""What a nest costs on a machine, predicted from its loops and accesses alone; nothing is compiled."""
