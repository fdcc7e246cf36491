// Times MPI_Allreduce with one process per rank, for any MPI implementation.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

/// Arguments: ROW_SECONDS BYTES... For each size, rank 0 prints one JSON line with the time that
/// every operation took on the slowest rank.
int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  int ranks = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const double row_seconds = argc > 1 ? atof(argv[1]) : 1;
  for (int i = 2; i < argc; ++i) {
    const long bytes = atol(argv[i]);
    const int count = (int)(bytes / (long)sizeof(float));
    float* input = malloc((size_t)bytes);
    float* sum = malloc((size_t)bytes);
    for (int k = 0; k < count; ++k) input[k] = (float)(k % 251 + rank * (k % 7));
    MPI_Allreduce(input, sum, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    for (int k = 0; k < count; ++k) {
      if (sum[k] == (float)(ranks * (k % 251) + ranks * (ranks - 1) / 2 * (k % 7))) continue;
      fprintf(stderr, "a sum is wrong\n");
      MPI_Abort(MPI_COMM_WORLD, 1);
    }
    const int least = bytes <= 1 << 20 ? 20 : bytes <= 32 << 20 ? 10 : 5;
    double began = MPI_Wtime();
    for (int k = 0; k < least / 2; ++k) {
      MPI_Allreduce(input, sum, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    }
    double mean = (MPI_Wtime() - began) / (least / 2) / ranks;
    MPI_Allreduce(MPI_IN_PLACE, &mean, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    const double fit = row_seconds / (mean > 1e-6 ? mean : 1e-6);
    const int repeats = fit < least ? least : fit > 1000 ? 1000 : (int)fit;
    double* seconds = malloc((size_t)repeats * sizeof(double));
    double* slowest = malloc((size_t)repeats * sizeof(double));
    for (int k = 0; k < repeats; ++k) {
      began = MPI_Wtime();
      MPI_Allreduce(input, sum, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
      seconds[k] = MPI_Wtime() - began;
    }
    MPI_Reduce(seconds, slowest, repeats, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    if (rank == 0) {
      printf("{\"bytes\": %ld, \"seconds\": [", bytes);
      for (int k = 0; k < repeats; ++k) printf("%s%.9f", k == 0 ? "" : ", ", slowest[k]);
      printf("]}\n");
      fflush(stdout);
    }
    free(input);
    free(sum);
    free(seconds);
    free(slowest);
  }
  MPI_Finalize();
  return 0;
}
