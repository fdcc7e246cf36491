// Opens training data that stay in their files: IDX, CIFAR-10's binary form, CSV, text.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "train/data/csv_rows.hpp"
#include "train/data/sample_blocks.hpp"
#include "train/data_set.hpp"

namespace gv {

// Each function opens files that are then read in blocks. The samples are the same, bit for bit, as
// those of the function in readers.hpp that reads complete files of this format into memory. On
// success `blocks` of the result is set, and the files stay open. Compressed files are refused,
// because they cannot be read in blocks. A block takes about `block_bytes` of memory.

/// Reads the headers, the lengths and all labels now, and the images later.
LoadedDataSet open_idx(const std::string& images, const std::string& labels,
                       std::size_t block_bytes = data_block_bytes);

/// Reads only the lengths now. Labels are checked when their block is read.
LoadedDataSet open_cifar10(const std::vector<std::string>& files,
                           std::size_t block_bytes = data_block_bytes);

/// Reads and checks the whole file now, because lines differ in length. Keeps only the offset at
/// which each block begins.
LoadedDataSet open_csv(const std::string& file, std::size_t targets,
                       std::size_t block_bytes = data_block_bytes, InputScale scale = {});

/// Reads only the lengths now. The samples come from whole files (TextPart::whole).
LoadedDataSet open_text(const std::vector<std::string>& files, std::size_t context,
                        std::size_t block_bytes = data_block_bytes);

}  // namespace gv
