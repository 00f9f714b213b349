#include "every_field_provider.c"
