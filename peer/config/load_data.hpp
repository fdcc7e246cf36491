// Reads or opens the data sets that a config names.
#pragma once

#include "peer/config/config.hpp"
#include "train/data/readers.hpp"
#include "train/data_set.hpp"

namespace gv {

/// Reads the training data or, with `test`, the test data into memory. If `choose` is given, images
/// that it does not choose are never read into memory; other formats are read whole.
LoadedDataSet load_data(const Config& config, bool test, const Choose& choose = {});

/// Opens the training files, whose samples are read while peers train. Leased data are not dealt
/// out, so all peers have all samples.
LoadedDataSet open_data(const DataConfig& data);

}  // namespace gv
