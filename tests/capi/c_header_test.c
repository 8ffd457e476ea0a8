/* c_api.h is C: this file proves that a C compiler reads it and that a C program can use it. */
#include <stdio.h>
#include <string.h>

#include "vernier/c_api.h"

static double CellOf(const VnTable* table, const char* column) {
  VnCell cells[64];
  size_t i;
  if (VnTableRow(table, 0, cells, 64) != VN_OK) return -1;
  for (i = 0; i < VnTableNumColumns(table); ++i) {
    if (strcmp(VnTableColumn(table, i), column) == 0) return cells[i].number;
  }
  return -1;
}

int main(void) {
  const float target_values[2] = {1.0F, 2.5F};
  const float golden_values[2] = {1.0F, 2.0F};
  const int64_t shape[1] = {2};
  const VnTensor target = {target_values, "float32", 1, shape, NULL};
  const VnTensor golden = {golden_values, "float32", 1, shape, NULL};
  VnTable* row = NULL;
  double max_abs;

  if (VnApiVersion() != VN_API_VERSION) return 1;
  if (VnPair(&target, &golden, NULL, &row) != VN_OK) {
    fprintf(stderr, "%s\n", VnLastError()->message);
    return 2;
  }
  max_abs = CellOf(row, "max_abs");
  VnCloseTable(row);
  if (max_abs != 0.5) return 3;
  if (VnStats(NULL, NULL, &row) != VN_FAILED) return 4;
  return strcmp(VnLastError()->key, "BAD_ARGUMENT") == 0 ? 0 : 5;
}
