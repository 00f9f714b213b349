/* A library with one of LTTng's names, which has nothing but the probe as what it needs. */
