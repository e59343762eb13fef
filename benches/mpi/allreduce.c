/* MPI's all-reduce of floats, for benches/peers.py: allreduce BYTES WARM_UP REPEATS.
 * Rank 0 prints a line of JSON: the seconds of each exchange, and the core-seconds that the machine was busy. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Seconds that all cores together were not idle. */
static double busy(void) {
  unsigned long long user, nice, system, idle, wait, irq, soft;
  FILE *stat = fopen("/proc/stat", "r");
  if (!stat) return 0;
  int found = fscanf(stat, "cpu %llu %llu %llu %llu %llu %llu %llu", &user, &nice, &system, &idle, &wait, &irq, &soft);
  fclose(stat);
  return found < 7 ? 0 : (double)(user + nice + system + irq + soft) / sysconf(_SC_CLK_TCK);
}

int main(int count, char **arguments) {
  int rank;
  MPI_Init(&count, &arguments);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (count != 4) MPI_Abort(MPI_COMM_WORLD, 2);
  int elements = atoi(arguments[1]) / 4, warm_up = atoi(arguments[2]), repeats = atoi(arguments[3]);
  float *vector = malloc(elements * sizeof *vector);
  if (!vector) MPI_Abort(MPI_COMM_WORLD, 2);
  for (int i = 0; i < elements; i++) vector[i] = 0;
  double before = 0;
  if (rank == 0) printf("{\"seconds\": [");
  for (int step = 0; step < warm_up + repeats; step++) {
    if (step == warm_up) before = busy();
    double began = MPI_Wtime();
    MPI_Allreduce(MPI_IN_PLACE, vector, elements, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    double took = MPI_Wtime() - began;
    if (rank == 0 && step >= warm_up) printf("%s%.9f", step == warm_up ? "" : ", ", took);
  }
  if (rank == 0) printf("], \"core_s\": %.3f}\n", busy() - before);
  free(vector);
  MPI_Finalize();
  return 0;
}
