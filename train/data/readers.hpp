// Data sets from files: IDX (MNIST and its relatives), CIFAR-10's binary form, CSV, text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/problems.hpp"
#include "train/data_set.hpp"

namespace gv {

/// `data` is null when there are problems, each naming the file (and line) it is in.
struct LoadedDataSet {
  std::shared_ptr<DataSet> data;
  Problems problems;
};

/// Given a data set that has labels but no inputs yet: the samples to keep, in order.
using Choose = std::function<std::vector<std::uint32_t>(const DataSet&)>;

/// Images (three dimensions of bytes) and labels (one), plain or compressed with gzip. With
/// `choose` only the chosen images are ever held in memory.
LoadedDataSet read_idx(const std::string& images, const std::string& labels,
                       const Choose& choose = {});

/// Records of one label byte and 3 x 32 x 32 pixel bytes; several files follow each other.
LoadedDataSet read_cifar10(const std::vector<std::string>& files);

/// Numbers separated by commas, one sample a line, with a line of headings or without. The last
/// column is a label (a whole number from 0) when `targets` is 0, else the last `targets` columns
/// are targets.
LoadedDataSet read_csv(const std::string& file, std::size_t targets);

/// Which bytes of every file of a text are read.
enum class TextPart { whole, but_last_tenth, last_tenth };

/// Files of any bytes, plain or compressed with gzip, cut into windows of `context` bytes (1 or
/// more): what follows each of them is its label, so a window takes context + 1 bytes and the next
/// one begins at the last of these. What is left at a part's end is left out.
LoadedDataSet read_text(const std::vector<std::string>& files, std::size_t context, TextPart part);

}  // namespace gv
