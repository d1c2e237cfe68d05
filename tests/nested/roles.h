// What the nested tier's roles share.
#include <signal.h>

void fail(const char *what);
void show(const char *what, const char *file);

int answer(const char *port, char **argv);
int call(const char *address, const char *port);
int in_root(char **argv);
int share(const char *folder);
int share_read_only(const char *folder);
int storm(const char *folder, const char *closed);
