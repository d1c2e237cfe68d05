// Nothing: what it takes to launch a wave and to complete a dispatch.
__kernel __attribute__((reqd_work_group_size(32, 1, 1))) void empty(void) {}
