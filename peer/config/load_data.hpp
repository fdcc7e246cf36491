// Reads or opens the data sets that a config names.
#pragma once

#include "peer/config/config.hpp"
#include "train/data/readers.hpp"
#include "train/data_set.hpp"

namespace gv {

/// Reads the training data or, if `test` is true, the test data into memory. If `choose` is given,
/// images that it rejects are never read into memory; other formats are read completely.
LoadedDataSet load_data(const Config& config, bool test, const Choose& choose = {});

/// Opens the training files for leased data, whose samples are read while peers train. Leased data
/// are not dealt out, so every peer can read all samples.
LoadedDataSet open_data(const DataConfig& data);

}  // namespace gv
