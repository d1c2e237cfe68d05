// Work-item functions for the processor: the harness runs one thread for each work-item of a group.
extern unsigned belfry_local_id(void);
extern unsigned belfry_group_id(void);
extern void belfry_barrier(void);
#define get_local_id(d) belfry_local_id()
#define get_group_id(d) belfry_group_id()
#define get_local_size(d) 64u
#define get_global_id(d) (get_group_id(d) * get_local_size(d) + get_local_id(d))
#define barrier(x) belfry_barrier()
