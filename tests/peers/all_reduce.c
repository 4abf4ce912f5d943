/* All-reduce by Open MPI: `mpirun -np RANKS ./all_reduce BYTES...` prints a line for each size. Each round begins
 * with a barrier. */

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { WARM_UP = 2, MOST = 400 };

/* How often a size is measured: as the other programs of this folder do it. */
static int rounds(long size) {
    if (size <= 16384) return 400;
    if (size <= 262144) return 200;
    if (size <= 4194304) return 60;
    if (size <= 33554432) return 15;
    return 5;
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

struct seen {
    double median, mean;
};

static struct seen measure(long size, int rank, int ranks) {
    long n = size / 4;
    float *own = malloc(size), *sum = malloc(size);
    double times[MOST];
    if (!own || !sum) MPI_Abort(MPI_COMM_WORLD, 1);
    for (int round = -WARM_UP; round < rounds(size); round++) {
        for (long i = 0; i < n; i++) {
            own[i] = (float)(rank + 1);
            sum[i] = 0;
        }
        MPI_Barrier(MPI_COMM_WORLD);
        double begin = MPI_Wtime();
        MPI_Allreduce(own, sum, (int)n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        if (round >= 0) times[round] = MPI_Wtime() - begin;
        for (long i = 0; i < n; i++) {
            if (sum[i] != (float)(ranks * (ranks + 1) / 2)) MPI_Abort(MPI_COMM_WORLD, 2);
        }
    }
    free(own);
    free(sum);
    double total = 0;
    for (int round = 0; round < rounds(size); round++) total += times[round];
    qsort(times, rounds(size), sizeof times[0], ascending);
    return (struct seen){times[rounds(size) / 2], total / rounds(size)};
}

int main(int argc, char **argv) {
    int rank, ranks;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    for (int i = 1; i < argc; i++) {
        long size = atol(argv[i]);
        struct seen seen = measure(size, rank, ranks);
        if (rank == 0) {
            printf("all-reduce mpi ranks=%d bytes=%ld us=%.1f mean=%.1f\n", ranks, size, seen.median * 1e6, seen.mean * 1e6);
            fflush(stdout);
        }
    }
    return MPI_Finalize();
}
