// Samples: images as bytes or features as floats, with labels or targets.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/problems.hpp"
#include "train/batch.hpp"
#include "train/data/sample_blocks.hpp"
#include "train/spec.hpp"

namespace gv {

/// A data set, immutable once built. Either `bytes` or `floats` holds the inputs. A byte b stands
/// for (b / 255 - offset) * scale.
struct DataSet {
  SampleShape shape{};
  std::vector<std::uint8_t> bytes;   ///< (samples, shape)
  std::vector<float> floats;         ///< (samples, shape)
  std::vector<std::int32_t> labels;  ///< (samples, predictions) for classification, else empty.
  std::vector<float> targets;        ///< (samples, target_width) for regression, else empty.
  std::size_t classes = 0;           ///< Number of classes; 0 for regression.
  std::size_t predictions = 1;       ///< Labels in one sample: 1, or one for each position of a
                                     ///< sequence.
  std::size_t target_width = 0;
  float offset = 0;
  float scale = 1;
  /// If not null, the samples stay in files. Then `bytes`, `floats`, `labels` and `targets` are
  /// empty, and only a Sampler reads samples.
  std::shared_ptr<const SampleBlocks> blocks = nullptr;

  std::size_t size() const {
    if (blocks) return blocks->samples();
    return classes ? labels.size() / predictions
                   : (target_width ? targets.size() / target_width : 0);
  }
  std::size_t features() const { return shape[0] * shape[1] * shape[2]; }

  /// Sets `offset` and `scale`. Each float becomes (value - offset) * scale. Floats must be
  /// unchanged since they were read.
  void normalise(float new_offset, float new_scale);

  /// Writes sample `index` into `out` as features() floats. Not for samples in files.
  void read(std::size_t index, std::span<float> out) const;

  /// A new data set of the samples at `indices`, in that order. Not for samples in files.
  DataSet subset(std::span<const std::uint32_t> indices) const;
};

/// The result of a reader. If there are problems, `data` is null. Each problem names a file and, if
/// only one line is wrong, that line.
struct LoadedDataSet {
  std::shared_ptr<DataSet> data;
  Problems problems;
};

}  // namespace gv
