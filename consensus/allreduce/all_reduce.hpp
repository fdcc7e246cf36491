// One all-reduce as one peer takes part in it: carries out its plan, block by block.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <tuple>
#include <vector>

#include "base/floats.hpp"
#include "consensus/allreduce/reduce_plan.hpp"
#include "consensus/codec/value_codec.hpp"
#include "consensus/message/effects.hpp"
#include "consensus/transfer/piece_name.hpp"

namespace gv {

/// How the values of a piece are written.
struct WireFormat {
  ValueCodec codec = ValueCodec::identity;
  bool sparse = false;  ///< Zeros are left out where that takes fewer bytes.

  bool is_plain() const { return codec == ValueCodec::identity && !sparse; }
};

/// The last block of a message has up to 1/segment_rest more than the others, which therefore have
/// at most so many bytes.
inline constexpr std::size_t segment_rest = 4;
inline constexpr std::size_t segment_bytes_max =
    block_bytes_max / (segment_rest + 1) * segment_rest;
static_assert(block_bytes_usual <= segment_bytes_max);

/// What all who take part must have alike.
struct AllReduceShape {
  std::vector<PeerId> order;  ///< Who takes part; the place in it is the rank.
  std::uint64_t generation =
      0;  ///< Names the agreement on `order`: pieces of another are not ours.
  ReduceAlgorithm algorithm = ReduceAlgorithm::ring;
  std::vector<Range> buckets;  ///< Disjoint, in the order in which inputs become ready.
  /// By rank, one behind the other, if there are any: together they are one of the buckets, and are
  /// not summed, but everybody gets each part as its rank has it. Only where the wire is plain.
  std::vector<Range> parts;
  /// Elements of one block (of the last up to 1/segment_rest more); a block is sent on at once.
  std::size_t segment = block_bytes_usual / sizeof(float);
  float scale = 1;  ///< Of every sum, once, when it is complete.
  /// From this element on weights and the scale are 1, and values travel as they are.
  std::size_t unweighted_from = static_cast<std::size_t>(-1);
  /// Other than plain only for the ring, where pieces are passed on whole. Partial sums are written
  /// anew by each; the final ones once, by whoever completes them, so that all have the same bits.
  WireFormat wire;
};

/// Sums weight_i * input_i over everybody in `order`, times `scale`, in an order of additions that
/// the plan fixes, so that all get the same bits. The input is never changed: whoever gives up can
/// start again. It is sent as it lies there where its weight is 1. Pure.
class AllReduce {
 public:
  using Vector = std::shared_ptr<Floats>;

  /// `input` holds our values; of a bucket they are read only after ready(bucket). `work` has as
  /// many elements, of any value, and becomes the result. Both are kept while anything needs them.
  AllReduce(const AllReduceShape& options, PeerId self, std::uint64_t operation, float weight,
            std::shared_ptr<const Floats> input, Vector work);

  /// The input of this bucket is there. Once for each bucket, in any order.
  void ready(std::size_t bucket, Effects& out);

  /// Where the bytes of a block that is under way shall lie; empty: anywhere else. It changes when
  /// the block is of no use any more.
  std::span<std::byte> place(PeerId from, const TransferId& id, std::uint64_t offset,
                             std::size_t bytes);

  /// True if the block is a piece that this rank waits for, now or later; others change nothing.
  bool receive(PeerId from, const Block& block, Effects& out);

  bool done() const { return left_ == 0; }
  std::uint64_t operation() const { return operation_; }
  /// The sum, once it is done.
  const Vector& result() const { return work_; }

  /// Some piece comes from there or goes there.
  bool involves(PeerId peer) const;

  /// Pieces received so far, in elements; grows while there is progress.
  std::uint64_t progress() const { return progress_; }
  /// Bytes asked to be sent.
  std::uint64_t bytes_sent() const { return bytes_sent_; }

 private:
  struct Step {
    ReduceStep what;
    std::size_t at = 0;       ///< Elements before this one are done.
    bool first_touch = true;  ///< No earlier step concerns these elements: the input comes in.
    std::vector<std::size_t> after;   ///< Earlier receipts of the same elements.
    std::vector<std::size_t> before;  ///< Later steps that wait for this one.
  };
  struct Bucket {
    bool ready = false;
    bool is_gathered = false;  ///< Not summed.
    std::vector<Step> steps;
  };
  /// Bucket, step and segment of a block that came too early.
  using EarlyKey = std::tuple<std::size_t, std::size_t, std::size_t>;
  struct Early {
    std::span<const float> values;
    std::shared_ptr<const void> owner;
  };

  /// The piece that a block would be.
  struct Awaited {
    std::size_t bucket = 0;
    std::size_t step = 0;
    std::size_t segment = 0;
    Range range;

    EarlyKey key() const { return {bucket, step, segment}; }
  };

  std::optional<Awaited> awaited(PeerId from, const TransferId& id, std::uint64_t offset) const;
  std::vector<ReduceStep> plan_of(const Bucket& bucket, Range range) const;
  std::size_t limit(const Bucket& bucket, const Step& step) const;
  void go_on(std::size_t bucket, std::size_t step, Effects& out);
  void send(std::size_t bucket, Step& step, Effects& out);
  Payload payload(const Step& step, std::size_t end, const PieceName& piece);
  Payload coded_payload(const Step& step, std::size_t end, const PieceName& piece);
  bool read(std::span<const std::byte> bytes, std::size_t begin, std::span<float> values) const;
  bool is_final(const Step& step) const;
  void take_early(std::size_t bucket, std::size_t step);
  void merge(Step& step, std::span<const float> values);
  void bring_in(std::size_t begin, std::size_t end, const float* came, float scale);
  bool sends_input(const Step& step) const;
  std::size_t segments(const Step& step) const;
  std::size_t segment_begin(const Step& step, std::size_t segment) const;
  std::size_t segment_at(const Step& step) const;
  void finish_if_complete(const Step& step);

  AllReduceShape options_;
  PeerId self_;
  std::size_t rank_ = 0;
  std::uint64_t operation_;
  float weight_;
  std::shared_ptr<const Floats> input_;
  Vector work_;
  std::vector<Bucket> buckets_;
  std::map<EarlyKey, Early> early_;
  std::map<std::size_t, Payload> written_;  ///< Final pieces in the bytes they came in, by element.
  std::size_t left_ = 0;                    ///< Steps, and buckets whose input is not there.
  std::uint64_t progress_ = 0;
  std::uint64_t bytes_sent_ = 0;
};

}  // namespace gv
