// Draws a schedule over time: as rows of characters, or as SVG.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "consensus/pipeline/replay.hpp"

namespace gv {

struct PictureOptions {
  std::vector<std::string> rows;  ///< The label of each worker. Empty means "worker 0" and so on.
  std::string title;              ///< The title of an SVG.
  std::size_t columns = 100;      ///< Largest width of a text in characters, labels included.
  /// Seconds that one character stands for; 0 means the time of the shortest forward or backward
  /// pass. Increased if the text would be too wide.
  double slot_s = 0;
};

/// One line for each worker, one character for each slot, and the time below:
///
///     worker 0  012a3bcd#
///     worker 1  .0a1b2c3d#
///
/// Digits are forward passes, by the last digit of the micro-batch. Letters are backward passes,
/// with a for micro-batch 0: small letters are whole passes or the part for the inputs, capitals
/// the part for the weights. # is an update, which always has a cell, and a point is an idle slot.
/// A slot shows the instruction that takes most of it; one that is too short for that is shown
/// where there is room. Empty if nothing takes time.
std::string pipeline_text(const PipelineTiming& timing, const PictureOptions& options);

/// The legend of pipeline_text(): one line for each kind of character that it contains.
std::string pipeline_legend(const PipelineTiming& timing);

/// Draws the schedule as SVG: one box of class "op" for each instruction, with the number of its
/// micro-batch if it fits, over an axis in milliseconds. Empty if nothing takes time.
std::string pipeline_svg(const PipelineTiming& timing, const PictureOptions& options);

}  // namespace gv
