# PID 1 of the machine, until it becomes systemd. The mount, UTS, IPC, network and cgroup
# namespaces are those of the machine. $1 is an empty folder.
set -eu
mount --make-rprivate /
mount -t tmpfs tmpfs "$1"
mkdir "$1"/upper "$1"/work "$1"/root
mount -t overlay overlay -o lowerdir=/,upperdir="$1/upper",workdir="$1/work" "$1/root"
cd "$1/root"
mount -t proc proc proc
mount -t sysfs -o ro sysfs sys
mount -t cgroup2 cgroup2 sys/fs/cgroup
mount -t tmpfs -o mode=755 tmpfs run
mount -t tmpfs tmpfs tmp
mount -t tmpfs -o mode=755 tmpfs dev
mkdir dev/shm dev/pts dev/mqueue
mount -t tmpfs -o mode=1777 tmpfs dev/shm
mount -t devpts -o newinstance,ptmxmode=0666 devpts dev/pts
mount -t mqueue mqueue dev/mqueue
ln -s pts/ptmx dev/ptmx
mknod -m 666 dev/null c 1 3
mknod -m 666 dev/zero c 1 5
mknod -m 666 dev/full c 1 7
mknod -m 666 dev/random c 1 8
mknod -m 666 dev/urandom c 1 9
mknod -m 666 dev/tty c 5 0

# Of the units of the outer machine, only the journal and the targets that every service depends on.
units='systemd-journald.service systemd-journald.socket systemd-journald-dev-log.socket'
for target in basic local-fs local-fs-pre multi-user network paths shutdown slices sockets sysinit timers umount; do
	units="$units $target.target"
done
for unit in $units; do cp usr/lib/systemd/system/$unit run/; done
for empty in etc/systemd/system usr/lib/systemd/system usr/lib/systemd/system-generators etc/systemd/journald.conf.d; do
	mkdir -p $empty
	mount -t tmpfs -o mode=755 tmpfs $empty
done
(cd run && mv $units ../usr/lib/systemd/system/)
mkdir usr/lib/systemd/system/sockets.target.wants
ln -s ../systemd-journald.socket ../systemd-journald-dev-log.socket usr/lib/systemd/system/sockets.target.wants/
printf '[Journal]\nStorage=volatile\nRateLimitBurst=0\n' >etc/systemd/journald.conf.d/test.conf
# Packages start their services, also if those of the outer machine do not.
rm -f usr/sbin/policy-rc.d
hostname node1
echo node1 >etc/hostname

pivot_root . mnt
umount -l /mnt
exec env -i container=test PATH=/usr/sbin:/usr/bin:/sbin:/bin \
	/lib/systemd/systemd --system --unit=multi-user.target --log-target=journal
