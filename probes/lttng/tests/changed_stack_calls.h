#pragma once

#include <stdint.h>

/* In the middle of an event. */
uint32_t go_elsewhere(uint32_t number);
