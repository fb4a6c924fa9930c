"""How far one person can move a value, in integer steps of a public grid."""
