// Opens training data that stay in their files: IDX, CIFAR-10's binary form, CSV, text.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "train/data/sample_blocks.hpp"
#include "train/data_set.hpp"

namespace gv {

// Each function opens the files that the reader of the same name in readers.hpp reads whole, and
// the samples are the same, bit for bit. The result's `blocks` are set. Compressed files are
// refused, because they cannot be read in blocks. The files stay open. A block takes about
// `block_bytes`.

/// Reads the headers, the lengths and all labels now.
LoadedDataSet open_idx(const std::string& images, const std::string& labels,
                       std::size_t block_bytes = data_block_bytes);

/// Reads the lengths now. Labels are checked with their block.
LoadedDataSet open_cifar10(const std::vector<std::string>& files,
                           std::size_t block_bytes = data_block_bytes);

/// Reads and checks the whole file now, because lines have no known length; keeps the place at
/// which each block begins.
LoadedDataSet open_csv(const std::string& file, std::size_t targets,
                       std::size_t block_bytes = data_block_bytes);

/// Reads the lengths now. Each file is read whole (TextPart::whole).
LoadedDataSet open_text(const std::vector<std::string>& files, std::size_t context,
                        std::size_t block_bytes = data_block_bytes);

}  // namespace gv
