// Reads data sets from files: IDX (MNIST and similar sets), CIFAR-10's binary form, CSV, text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/problems.hpp"
#include "train/data/csv_rows.hpp"
#include "train/data_set.hpp"

namespace gv {

/// The reason given for a file that is too large to be read into memory. The remedy depends on the
/// file's purpose.
inline constexpr std::string_view too_large_for_memory =
    "it holds more than 4 GiB, which are not read into memory";

/// Chooses the samples to keep, given a data set with labels but no inputs yet. The result is a
/// list of sample indices; the samples are kept in that order.
using Choose = std::function<std::vector<std::uint32_t>(const DataSet&)>;

/// Reads IDX files of images (three dimensions of bytes) and labels (one), plain or gzipped. With
/// `choose`, only the chosen images are ever in memory.
LoadedDataSet read_idx(const std::string& images, const std::string& labels,
                       const Choose& choose = {});

/// Reads records of one label byte and 3 x 32 x 32 pixel bytes. Several files are read as if they
/// were one.
LoadedDataSet read_cifar10(const std::vector<std::string>& files);

/// Reads comma-separated numbers, one sample in each line, with or without a line of headings. If
/// `targets` is 0, the last column is a label (a whole number from 0), otherwise the last `targets`
/// columns are targets. `scale` is applied to the other columns.
LoadedDataSet read_csv(const std::string& file, std::size_t targets, InputScale scale = {});

/// Sets the fields that are the same in all data sets made of text windows of `context` bytes.
void describe_text(std::size_t context, DataSet& data);

/// Returns the problem of a text of `bytes` bytes, which is too short for one window.
Problem text_too_short(const std::string& file, std::size_t bytes, std::size_t context);

/// Which part of each text file is read.
enum class TextPart { whole, but_last_tenth, last_tenth };

/// Reads files of any bytes, plain or gzipped, and cuts them into windows of `context` bytes (at
/// least 1). The label of each byte is the byte after it, so a window takes context + 1 bytes. The
/// last of these bytes is also the first byte of the next window. An incomplete window at the end
/// is dropped.
LoadedDataSet read_text(const std::vector<std::string>& files, std::size_t context, TextPart part);

}  // namespace gv
