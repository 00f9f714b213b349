#include "every_field.c"
