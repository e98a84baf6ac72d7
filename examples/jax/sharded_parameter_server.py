"""``sharded_parameter_server``: shards do not show in the numbers, for SGD updates each tensor by itself."""

from batch_parameter_server import train as train
